package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/test/chaos/internal/machine"
	"github.com/crumbmesh/crumbmesh/test/chaos/internal/nemesis"
)

const (
	nodes    = 3
	portNATS = "4222" // of a node, which has a namespace of its own
	portPeer = "6222"
)

// stageProcesses is two of each service on one nats-server.
func stageProcesses(ctx context.Context, w *workshop) (*place, error) {
	p, err := newPlace(w, scenarioProcesses)
	if err != nil {
		return nil, err
	}
	port, err := machine.FreePort()
	if err != nil {
		return p, err
	}
	config := fmt.Sprintf("server_name: nats\nlisten: \"127.0.0.1:%s\"\njetstream {store_dir: %q, max_file_store: 16GB}\n", port, p.store("nats"))
	if err := p.server("nats", config, nil); err != nil {
		return p, err
	}
	p.plan = func(seed uint64, length time.Duration) nemesis.Plan {
		return nemesis.Processes(seed, length, names(p.services), p.servers[0].Name)
	}
	url := "nats://127.0.0.1:" + port
	return p, p.mesh(ctx, url, url, 1)
}

// stageCluster is two of each service on three nats-servers, each on a host of its
// own, with three copies of every stream. Services reach them through a proxy each.
func stageCluster(ctx context.Context, w *workshop) (*place, error) {
	p, err := newPlace(w, scenarioCluster)
	if err != nil {
		return nil, err
	}
	if p.network, err = machine.NewNetwork(nodes); err != nil {
		return p, err
	}
	p.hosts = p.network.Hosts
	if p.proxies, err = p.machine.Toxiproxy(ctx, p.toxiproxy); err != nil {
		return p, err
	}
	var routes, direct, through []string
	for _, h := range p.hosts {
		routes = append(routes, fmt.Sprintf("%q", "nats://"+h.Address+":"+portPeer))
	}
	for i, h := range p.hosts {
		name := fmt.Sprintf("n%d", i+1)
		config := fmt.Sprintf("server_name: %s\nlisten: \"%s:%s\"\njetstream {store_dir: %q, max_file_store: 16GB}\n"+
			"cluster {name: chaos, listen: \"%s:%s\", no_advertise: true, routes: [%s]}\n",
			name, h.Address, portNATS, p.store(name), h.Address, portPeer, strings.Join(routes, ", "))
		if err := p.server(name, config, h.Command); err != nil {
			return p, err
		}
		direct = append(direct, "nats://"+h.Address+":"+portNATS)
		listen, err := p.proxies.Add(ctx, name, h.Address+":"+portNATS)
		if err != nil {
			return p, err
		}
		through = append(through, "nats://"+listen)
	}
	p.plan = func(seed uint64, length time.Duration) nemesis.Plan {
		return nemesis.Cluster(seed, length, names(p.services), names(p.servers))
	}
	return p, p.mesh(ctx, strings.Join(direct, ","), strings.Join(through, ","), nodes)
}
