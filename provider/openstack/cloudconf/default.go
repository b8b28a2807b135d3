package cloudconf

import "time"

// Default is the configuration of an empty file: OCCM's defaults for OCCM's options.
func Default() Config {
	return Config{
		LoadBalancer: LoadBalancer{
			Enabled:               true,
			LBMethod:              "ROUND_ROBIN",
			LBProvider:            "amphora",
			MonitorDelay:          5 * time.Second,
			MonitorTimeout:        3 * time.Second,
			MonitorMaxRetries:     1,
			MonitorMaxRetriesDown: 3,
			CascadeDelete:         true,
			IngressHostnameSuffix: "nip.io",
			MaxSharedLB:           2,
			ContainerStore:        "barbican",
			AllowedAnnotations:    allAnnotations,
			MaxSharedListeners:    50,
			DriftPeriod:           5 * time.Minute,
			MemberTarget:          "node",
		},
		Metadata: Metadata{
			SearchOrder:    "configDrive,metadataService",
			RequestTimeout: time.Minute,
		},
		Client: Client{
			RequestRate:  20,
			RequestBurst: 50,
			MaxRetries:   1,
		},
		Instances: Instances{
			MetadataMaxAge:      30 * time.Second,
			StatusMaxAge:        4 * time.Second,
			AbsenceConfirmation: 10 * time.Second,
			VanishedNumber:      3,
			VanishedShare:       1.0 / 3,
		},
	}
}
