package transparency

// Key names a tile.
var Key = key
