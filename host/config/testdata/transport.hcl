locals {
  token = env("TOKEN")
}

server "unknown" {
  transport "htpp" {
    url = "x"
  }
}

server "typo" {
  transport "stdio" {
    comand = "npx"
    args   = ["-y", ["x"]]
    env {
      A = "b"
    }
  }
}

server "types" {
  transport "http" {
    url     = "https://x.example"
    retries = "many"
    headers = {
      A = "1"
      B = ["hunter2"]
    }
    tls = {
      ca_fil = "x.pem"
      pins   = ["a", null]
    }
  }
}

server "nulls" {
  transport "stdio" {
    command = null
  }
}

server "nothing" {
  transport "stdio" {
  }
}

server "bad" {
  transport "bad" {
  }
}

server "broken" {
  transport "broken" {
  }
}
