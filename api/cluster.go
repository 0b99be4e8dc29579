package api

// ClusterResponse answers GET /api/v1/cluster: the servers that share a store, the nodes
// that hold it, and the agents that send.
type ClusterResponse struct {
	Now Float `json:"now"` // Unix seconds
	// Server names the one that answers. Store is the address of the store that servers
	// share, without its password; it is empty if the server keeps its data in its own
	// directory.
	Server  string          `json:"server,omitempty"`
	Store   string          `json:"store,omitempty"`
	Servers []ClusterServer `json:"servers"` // by name
	Nodes   []ClusterNode   `json:"nodes"`   // of ClickHouse, the first host first, then by shard
	// Agents are those that the server that answers has heard since its start, by name.
	Agents   []Agent          `json:"agents"`
	Findings []ClusterFinding `json:"findings"` // what is wrong, what stops everything first
	// Statements, Retried and Failed count what the server that answers has sent to
	// ClickHouse since its start.
	Statements uint64 `json:"statements"`
	Retried    uint64 `json:"retried"`
	Failed     uint64 `json:"failed"`
}

// ClusterServer is one of the servers of a store, as another saw it last.
type ClusterServer struct {
	Name     string   `json:"name"`
	Address  string   `json:"address,omitempty"`
	Version  string   `json:"version"`
	Since    Float    `json:"since"` // when it joined, by its own clock, Unix seconds
	Seen     Float    `json:"seen"`  // how long ago it gave a sign of life, seconds
	Alive    bool     `json:"alive"`
	Works    []string `json:"works"` // what it does for all
	Lag      Float    `json:"lag"`   // age of its oldest generation that is not stored, seconds; 0 if all are, null if it does not say
	Ahead    Float    `json:"ahead"` // its clock, seconds at least; null if not known
	Problems []string `json:"problems,omitempty"`
}

// ClusterNode is a node of ClickHouse, as it describes itself.
type ClusterNode struct {
	Host    string `json:"host"`
	Shard   int    `json:"shard"` // from 1; 0 if it does not answer, and nobody knows
	First   bool   `json:"first"` // it keeps the log, which decides what counts
	Answers bool   `json:"answers"`
	Error   string `json:"error,omitempty"` // why it does not answer
	Away    Float  `json:"away"`            // since when it has not answered the server that is asked, Unix seconds; null while it does
	Version string `json:"version,omitempty"`
	Ahead   Float  `json:"ahead"`   // its clock, in whole seconds; null if not known
	Parts   uint64 `json:"parts"`   // of the tables' data
	Crowded uint64 `json:"crowded"` // parts of the partition that has the most
	Delayed uint64 `json:"delayed"` // parts of a partition from which on insertions are slowed down
	Rows    uint64 `json:"rows"`
	Bytes   uint64 `json:"bytes"` // on disk
	Free    Float  `json:"free"`  // bytes of its disks; null if its version does not say
	Total   Float  `json:"total"`
	// Statements and Failed count those that the server that answers has sent it.
	Statements uint64 `json:"statements"`
	Failed     uint64 `json:"failed"`
}

// ClusterFinding is something that is wrong with a cluster, or soon will be.
type ClusterFinding struct {
	Where string `json:"where"`           // a node or server; empty for all
	What  string `json:"what"`            // a clause
	Costs string `json:"costs,omitempty"` // a sentence or two
	Next  string `json:"next"`            // what to do
}
