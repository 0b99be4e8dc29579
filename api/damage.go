package api

// DamageAcknowledge is the body of POST /api/v1/damage/acknowledge: {}. It may be
// left away.
type DamageAcknowledge struct{}

// DamageAcknowledged answers POST /api/v1/damage/acknowledge.
type DamageAcknowledged struct {
	Acknowledged int `json:"acknowledged"` // reports that are over: the account of them stays in damaged/
	Left         int `json:"left"`         // reports of damaged files that are still in place
}
