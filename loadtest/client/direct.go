package client

import "time"

// directWithin is how soon after a connection's last request the next one may
// go by way of direct, which would not notice that the server has closed its
// side alone of a connection that lies idle. No server thinks it idle so early.
const directWithin = 100 * time.Millisecond
