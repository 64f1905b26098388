package chat

import (
	"context"
	"encoding/json"
	"time"

	"garcon/proto/api"
)

// settingsKey is where the settings are kept in the registry.
const settingsKey = "controller"

// Settings returns the settings; members that were never set are nil.
func (s *Service) Settings() api.Settings {
	var out api.Settings
	raw, ok := s.registry.Setting(settingsKey)
	if !ok {
		return out
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		s.log.Error("settings not readable; using the defaults", "err", err)
		return api.Settings{}
	}
	return out
}

// maxIdleMinutes bounds the setting of how long agents are kept: a week.
const maxIdleMinutes = 7 * 24 * 60

// UpdateSettings changes settings.
func (s *Service) UpdateSettings(ctx context.Context, req api.Settings) (api.Settings, error) {
	if m := req.IdleAgentMinutes; m != nil && (*m < 1 || *m > maxIdleMinutes) {
		return api.Settings{}, api.NewError(api.CodeInvalid, "idleAgentMinutes must be 1 to 10080", "")
	}
	if e := req.DefaultExecutor; e != nil && *e != "" {
		if _, err := s.runtimes.Runtime(*e); err != nil {
			return api.Settings{}, err
		}
	}
	current := s.Settings()
	if req.DefaultExecutor != nil {
		current.DefaultExecutor = req.DefaultExecutor
	}
	if req.DefaultAgent != nil {
		current.DefaultAgent = req.DefaultAgent
	}
	if req.AutoTitle != nil {
		current.AutoTitle = req.AutoTitle
	}
	if req.IdleAgentMinutes != nil {
		current.IdleAgentMinutes = req.IdleAgentMinutes
	}
	raw, err := json.Marshal(current)
	if err != nil {
		return api.Settings{}, err
	}
	return current, storageError(s.registry.PutSetting(ctx, settingsKey, raw))
}

func (s *Service) idle() time.Duration {
	if m := s.Settings().IdleAgentMinutes; m != nil {
		return time.Duration(*m) * time.Minute
	}
	return defaultIdle
}

// DefaultExecutor returns the executor of requests that name none.
func (s *Service) DefaultExecutor() string {
	return s.runtimes.Default(deref(s.Settings().DefaultExecutor))
}
