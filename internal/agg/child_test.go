package agg

const childEnv = "TAILSCOPE_AGG_CHILD"

func child(dir string) {}
