variable "secret" {
  sensitive = true
  default   = "hunter2-var"
}

locals {
  token = env("TOKEN")
  pair  = { a = var.secret, b = env("HOME") }
  cut   = lookup(local.pair, local.token)
  num   = tonumber(local.token)
  json  = jsondecode(local.token)
  index = local.pair[local.token]
  item  = [1, 2][var.secret]
  call  = format("%d", local.token)
  bad   = local.token + 1
  read  = file(local.token)
  first = try(local.pair[local.token], tonumber(var.secret))
  raw   = tonumber(sensitive("hunter2-raw"))
}

listen "http" {
  address = env("ADDRESS")
}

log {
  level = env("TOKEN")
}

server "x" {
  prefix    = "${var.secret}!"
  call_wait = env("PORT")
  enabled   = env("HOME")
  transport "stdio" {
    command = var.secret.x
  }
}
