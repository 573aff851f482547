package shared

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/hermes-host/hermes-host/internal/rawjson"
	"github.com/hermes-host/hermes-host/shared/jsonrpc"
	"github.com/hermes-host/hermes-host/shared/transportpb"
)

// listChanges are the notices of changed lists: the capability that announces
// them and the name under which subscriptions/listen asks for them.
var listChanges = []struct{ capability, filter, method string }{
	{"tools", "toolsListChanged", "notifications/tools/list_changed"},
	{"prompts", "promptsListChanged", "notifications/prompts/list_changed"},
	{"resources", "resourcesListChanged", "notifications/resources/list_changed"},
}

// Pauses before listening again after the server has ended a subscription.
const (
	listenPause    = time.Second
	listenPauseMax = time.Minute
)

// subscription keeps a subscriptions/listen request open, with which a server
// of protocol 2026-07-28 sends the notices that older ones send unasked
// (SEP-2575). The goroutine of converse owns it.
type subscription struct {
	s       *session
	filter  json.RawMessage // nil: the server announces no notices
	request jsonrpc.Message // as long as filter is not nil
	pause   time.Duration
	since   time.Time // when the server acknowledged last
	timer   *time.Timer
	missed  bool // there was a time without a subscription
}

// want asks for the notices that the server's capabilities announce.
func (b *subscription) want(capabilities json.RawMessage) {
	for _, c := range listChanges {
		if string(rawjson.Get(capabilities, c.capability, "listChanged")) != "true" {
			continue
		}
		if filter, err := rawjson.Set(b.filter, json.RawMessage("true"), c.filter); err == nil {
			b.filter = filter
		}
	}
	if b.filter == nil {
		return
	}
	params := slices.Concat(json.RawMessage(`{"notifications":`), b.filter, json.RawMessage("}"))
	b.request = jsonrpc.Message{ID: listenID, Method: "subscriptions/listen", Params: params}
}

func (b *subscription) wanted() bool { return b.filter != nil }

// listen sends the request. deliver adds its _meta.
func (b *subscription) listen() {
	if b.filter != nil {
		b.s.push(b.request, true)
	}
}

// acknowledged is told that the server listens. After a gap whatever was
// subscribed to may have changed, so the host hears that it has.
func (b *subscription) acknowledged() {
	b.since = time.Now()
	if !b.missed {
		return
	}
	b.missed = false
	for _, c := range listChanges {
		if rawjson.Get(b.filter, c.filter) != nil {
			b.s.send(&transportpb.PluginFrame{Frame: &transportpb.PluginFrame_Notification{
				Notification: &transportpb.Notification{Method: c.method},
			}})
		}
	}
}

// ended listens again after a pause, which doubles unless the subscription has
// lasted. Why is nil if the server ended the subscription in order.
func (b *subscription) ended(why *WriteError) {
	b.missed = true
	if !b.since.IsZero() && time.Since(b.since) > listenPauseMax {
		b.pause = 0
	}
	b.pause = min(max(2*b.pause, listenPause), listenPauseMax)
	b.s.about.Logger.Debug("the server's notices ended; listening again", "in", b.pause, "error", why)
	request := b.request
	b.timer = time.AfterFunc(b.pause, func() { b.s.push(request, true) })
}

// refused gives up: the server announces notices but sends none.
func (b *subscription) refused(e *jsonrpc.Error) {
	b.s.about.Logger.Warn("the server refuses subscriptions/listen; changes of its lists will go unnoticed", "answer", e)
	b.filter = nil
}

func (b *subscription) stop() {
	if b.timer != nil {
		b.timer.Stop()
	}
}
