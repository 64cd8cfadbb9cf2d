package transparency

// Key names a tile.
var Key = key

// Text returns the checkpoint's text.
func (c Checkpoint) Text() []byte { return c.text() }
