variable "count" {
  type = number
}

variable "list" {
  type    = list(string)
  default = []
}

variable "token" {
  sensitive = true
}

variable "token" {
}

variable "odd" {
  type    = strng
  default = "x"
}

variable "other" {
  default = var.token
}

variable "wrong" {
  type      = map(string)
  sensitive = true
  default   = ["hunter2"]
}

locals {
  a     = local.b
  b     = "x${local.c}"
  c     = local.a
  d     = local.missing
  e     = local
  plain = upper("x")
}

locals {
  plain = 1
}

server "x" {
  call_wait = var.conut
  prefix    = lokal.plain
  transport "stdio" {
    command = hermes.exe
  }
}
