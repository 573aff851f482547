server "bad name" {
  transport "stdio" { command = "x" }
}

server "files" {
  enabled     = "maybe"
  call_wait   = 2
  keep_alive  = "-5s"
  max_message = "64M"
  prefix      = "a b"
  command     = "npx"
  max_mesage  = 1

  timeouts {
    connect = "soon"
    call    = "0s"
    list    = ["30s"]
    health  = env("TOKEN")
  }
  retry {
    base   = "2m"
    budget = 2.5
  }
  breaker {
    threshold = 0
    cooldwon  = "60s"
  }
  breaker {
  }
  tools {
    allow  = ["read_*", "[a-"]
    deny   = "write_*"
    rename = { a = "x", b = "x", c = "sp ace" }
  }
  resources {
    rename = { a = "b" }
  }
  prompts {
    deny = ["x", null, ""]
  }
}

server "two" {
  transport "stdio" { command = "x" }
  transport "http" { url = "x" }
}

server "two" {
  transport "stdio" { command = "x" }
}

server {
  transport "stdio" { command = "x" }
}

server "size" {
  max_message = 12.5
  revive {
    min = 60
  }
  transport "stdio" { command = "x" }
}
