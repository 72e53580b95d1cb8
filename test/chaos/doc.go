// Command chaos runs a mesh of separate processes on external nats-servers, kills,
// pauses, cuts off and restarts all of it while runs are under way, and then holds
// what stands on the streams, and what the tools did, against what the mesh
// promises.
//
//	go run ./test/chaos                        both scenarios, 1,000 runs and 300
//	go run ./test/chaos -scenario cluster -runs 50 -seed 7
//
// The seed decides who is killed when, what each run does and what people answer;
// it is printed, and the same seed plans the same again. A history that does not
// keep a promise fails the campaign: its violations are printed, and the folder
// with all logs is kept.
//
// nemesis plans, machine carries out, load is the clients, sink the world, raw
// reads the streams, and check judges: it shares no code with the product.
package main
