# The configuration that `hermes-host run` uses when no other is named. It works
# as it is, offline: its one server is built into the host.
#
# Change this file, or write your own and name it with --config. A file needs
# nothing but server blocks; all else has defaults. docs/configuration.md
# describes everything, and `hermes-host validate` checks a file without
# starting any server.

# Where MCP clients connect: http://127.0.0.1:7717/mcp has the tools of all
# servers, http://127.0.0.1:7717/mcp/demo those of one, under their own names.
# The address may be left out; this is the default.
listen "http" {
  address = "127.0.0.1:7717"
}

# A small server to try the host with. Its tools are seen as demo__echo,
# demo__time and so on. One of them, crash, ends the server's process: the next
# call of any tool works again, which is what this host is for.
server "demo" {
  transport "stdio" {
    command = hermes.executable # the path of this program
    args    = ["demo-server"]
  }
}

# A server that is a program, here one that npx fetches. A path that begins with
# ~ needs pathexpand. Tools can be left out by pattern.
#
# server "files" {
#   transport "stdio" {
#     command = "npx"
#     args    = ["-y", "@modelcontextprotocol/server-filesystem", pathexpand("~/Documents")]
#   }
#   tools {
#     deny = ["write_*", "edit_*", "move_*"]
#   }
# }

# A server that is reached over HTTP. The token comes from the environment, so
# that it is not in this file; the host does not start while TICKETS_TOKEN is
# not set, and shows its value nowhere.
#
# server "tickets" {
#   transport "http" {
#     url     = "https://mcp.example.com/mcp"
#     headers = { Authorization = "Bearer ${env("TICKETS_TOKEN")}" }
#   }
#   timeouts {
#     call = "2m"
#   }
# }
