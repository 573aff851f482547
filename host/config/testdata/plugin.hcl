plugin "WebSocket" {
  command = ""
  sha256  = "abc"
  env     = { "A=B" = "hunter2" }
}

plugin "ws" {
  args = "x"
}

plugin "ws" {
  command = "x"
}
