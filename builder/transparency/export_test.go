package transparency

// Key returns the key of a tile.
var Key = key
