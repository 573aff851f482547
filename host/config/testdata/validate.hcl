locals {
  headers = {
    "A B" = "hunter2!"
  }
}

server "args" {
  transport "stdio" {
    command = "x"
    args = [
      "good",
      "bad",
    ]
  }
}

server "computed" {
  transport "stdio" {
    command = "x"
    args    = concat(["good"], ["bad"])
  }
}

server "url" {
  transport "http" {
    url = "ftp://x.example"
    headers = {
      Fine  = "x"
      Leaky = "leak ${env("TOKEN")} hunter2"
    }
    tls = {
      pins = ["long enough", "short"]
    }
  }
}

server "local" {
  transport "http" {
    url     = "http://x.example"
    headers = local.headers
  }
}

server "whole" {
  transport "stdio" {
    command = "whole"
  }
}
