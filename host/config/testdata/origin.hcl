variable "port" {
  default = 7717
}

listen "http" {
  max_sessions = var.port
}
