listen "http" {
  address = "0.0.0.0:7717"
}
