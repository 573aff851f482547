# What `hermes-host run` uses when nothing else is named. It works offline: its
# one server is built into the host. Change it, or write your own and name it
# with --config; docs/configuration.md lists everything that it can say.

listen "http" {
  address = "127.0.0.1:7717"
}

# Tools to try the host with. One of them, crash, ends the server's process;
# the next call of any tool works again.
server "demo" {
  transport "stdio" {
    command = hermes.executable
    args    = ["demo-server"]
  }
}
