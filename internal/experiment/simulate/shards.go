package simulate

// InShards returns the number of shards that the data is divided into, by Shards and
// Split: as many as a query asks.
func (l Layout) InShards() int { return l.withDefaults().Shards }
