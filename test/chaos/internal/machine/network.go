package machine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// netPrefix begins the names of namespaces and devices; the id of the process
// that made them follows.
const netPrefix = "cchaos"

// Network is namespaces on one bridge, a host each. Addresses are from the block
// that RFC 2544 keeps for such tests.
type Network struct {
	Hosts []*Host
	pid   int
}

// Host is a namespace of a network.
type Host struct {
	Name    string // of the namespace
	Address string
	link    string // the bridge's end of its cable
	peers   []string
}

// NewNetwork makes a network of n hosts, which this machine's own namespace
// reaches too. It needs root and iproute2, and says so.
func NewNetwork(n int) (*Network, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("partitions are made with network namespaces, which need root: run as root (CAP_NET_ADMIN and CAP_SYS_ADMIN)")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return nil, fmt.Errorf("partitions are made with `ip netns`: install iproute2: %w", err)
	}
	sweep()
	net := &Network{pid: os.Getpid()}
	const addressMax = 250
	block := fmt.Sprintf("198.18.%d.", net.pid%addressMax+1)
	for i := range n {
		net.Hosts = append(net.Hosts, &Host{Name: net.name("n", i), Address: block + strconv.Itoa(i+1), link: net.name("v", i)})
	}
	for _, h := range net.Hosts {
		for _, other := range net.Hosts {
			if other != h {
				h.peers = append(h.peers, other.Address)
			}
		}
	}
	bridge := net.bridge()
	commands := []string{"link add " + bridge + " type bridge", "address add " + block + "254/24 dev " + bridge, "link set " + bridge + " up"}
	for _, h := range net.Hosts {
		commands = append(commands,
			"netns add "+h.Name,
			"link add "+h.link+" type veth peer name eth0 netns "+h.Name,
			"link set "+h.link+" master "+bridge, "link set "+h.link+" up",
			"-n "+h.Name+" address add "+h.Address+"/24 dev eth0", "-n "+h.Name+" link set eth0 up", "-n "+h.Name+" link set lo up")
	}
	for _, c := range commands {
		if err := ip(c); err != nil {
			return nil, errors.Join(fmt.Errorf("this machine does not make network namespaces: %w", err), net.Close())
		}
	}
	return net, nil
}

func (n *Network) bridge() string { return fmt.Sprintf("%s%db", netPrefix, n.pid) }

func (n *Network) name(kind string, i int) string {
	return fmt.Sprintf("%s%d%s%d", netPrefix, n.pid, kind, i+1)
}

// Command is args run on the host.
func (h *Host) Command(args ...string) []string {
	return append([]string{"ip", "netns", "exec", h.Name}, args...)
}

// Cut pulls the host's cable: everything that is sent to it or by it is lost,
// and nobody is told.
func (h *Host) Cut() error { return ip("link set " + h.link + " down") }

// Mend undoes Cut.
func (h *Host) Mend() error { return ip("link set " + h.link + " up") }

// Isolate loses what the host sends to the other hosts; this machine's own
// namespace still reaches it.
func (h *Host) Isolate() error {
	var all error
	for _, p := range h.peers {
		all = errors.Join(all, ip("-n "+h.Name+" route add blackhole "+p+"/32"))
	}
	return all
}

// Join undoes Isolate.
func (h *Host) Join() error {
	var all error
	for _, p := range h.peers {
		all = errors.Join(all, ip("-n "+h.Name+" route del blackhole "+p+"/32"))
	}
	return all
}

// Close removes the network. Its processes must have ended.
func (n *Network) Close() error {
	remove(n.pid)
	return nil
}

// remove takes down what a process made; what is not there is no error.
func remove(pid int) {
	mine := netPrefix + strconv.Itoa(pid)
	for _, name := range list("netns list", mine) {
		_ = ip("netns delete " + name) // its cable goes with it
	}
	_ = ip("link delete " + mine + "b")
}

// sweep removes what processes left that are gone.
func sweep() {
	for _, name := range list("netns list", netPrefix) {
		digits, _, _ := strings.Cut(strings.TrimPrefix(name, netPrefix), "n")
		pid, err := strconv.Atoi(digits)
		if err != nil {
			continue
		}
		if _, err := os.Stat("/proc/" + digits); errors.Is(err, os.ErrNotExist) {
			remove(pid)
		}
	}
}

func list(command, prefix string) (names []string) {
	out, err := exec.Command("ip", strings.Fields(command)...).Output()
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 0 && strings.HasPrefix(f[0], prefix) {
			names = append(names, f[0])
		}
	}
	return names
}

func ip(command string) error {
	out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", command, err, strings.TrimSpace(string(out)))
	}
	return nil
}
