sever "files" {
}

listen "https" {
}

log {
  level  = "verbose"
  format = json
}

color = true

listen "http" {
  address         = "127.0.0.1"
  allowed_origins = ["https://ok.example", "example.com/", "*"]
  allowed_hosts   = ["http://mcp.example.com"]
  max_sessions    = 0
  port            = 7717
}

log {
}
