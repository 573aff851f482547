server "files" {
  transport "stdio" {
    command = "npx
  }
}
