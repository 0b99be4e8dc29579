package simulate

// InShards returns how many shards the data ends up in, by Shards and Split: what a query
// asks.
func (l Layout) InShards() int { return l.withDefaults().Shards }
