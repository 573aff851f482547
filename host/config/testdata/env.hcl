# Scenario 50: nothing is sent that is no value.
server "unset" {
  transport "http" {
    url     = "https://mcp.example.com/mcp"
    headers = { Authorization = "Bearer ${env("TICKETS_TOKEN")}" }
  }
}

server "empty" {
  transport "http" {
    url = "https://mcp.example.com/mcp"
    headers = {
      X-Api-Key = env("EMPTY")
    }
  }
}

server "shell" {
  transport "http" {
    url     = "https://mcp.example.com/mcp"
    headers = { Authorization = "Bearer ${TICKETS_TOKEN}" }
  }
}

server "literal" {
  transport "http" {
    url     = "https://mcp.example.com/mcp"
    headers = { Authorization = "Bearer ${env("LITERAL")}" }
  }
}

server "mixed" {
  transport "http" {
    url     = "https://mcp.example.com/mcp"
    headers = { Authorization = env("MIXED") }
  }
}

server "escaped" {
  transport "http" {
    url     = "https://mcp.example.com/mcp"
    headers = { Authorization = "Bearer $${TICKETS_TOKEN}" }
  }
}

server "refused" {
  transport "http" {
    url     = "https://mcp.example.com/mcp"
    headers = { Authorization = "leak $${TICKETS_TOKEN}", Other = "other $${TICKETS_TOKEN}" }
  }
}
