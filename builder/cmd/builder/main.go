// Command builder makes market-data snapshots and maintains the store in which it publishes them.
// Run it with --help.
package main

func main() { program().Main() }
