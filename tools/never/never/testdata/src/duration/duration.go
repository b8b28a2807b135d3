package duration

import (
	"time"

	"github.com/go-logr/logr"
)

const period = time.Minute

func Log(log logr.Logger, pause time.Duration) {
	log.V(2).Info("x", "pause", pause)         // want `duration: the unit depends on the logger`
	log.Error(nil, "x", "period", period)      // want `duration: the unit depends on the logger`
	log.WithValues("pause", pause+period).V(1) // want `duration: the unit depends on the logger`
	log.Info("x", "pause", pause.String(), "seconds", pause.Seconds())
	_ = pause
}
