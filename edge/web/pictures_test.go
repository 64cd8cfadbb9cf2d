package web_test

import (
	"os"
	"testing"

	"example.com/marketdata/edge"
	"example.com/marketdata/internal/test/memstore"
	"example.com/marketdata/internal/test/openapitest"
	"example.com/marketdata/internal/test/teststore"
)

// TestPictures takes the pictures of the README, which show the market of make run, if SCREENSHOTS names a
// folder. Other tests take the pictures of the states that they produce.
func TestPictures(t *testing.T) {
	if os.Getenv("SCREENSHOTS") == "" {
		t.Skip("SCREENSHOTS names no folder")
	}
	at := mark()
	store := memstore.New()
	teststore.SimulateYear(t, store, "?assets=2000&seed=1", at)
	teststore.Change(t, store, at)
	base := openapitest.Start(t, edge.Config{Reader: store, AuthOff: true, Coins: true})
	openapitest.Await(t, base, "")
	browser := startBrowser(t)
	for name, v := range views {
		p := browser.open(t, v)
		p.goTo(base + "/")
		p.await(shown + ` && (!lined.matches || document.querySelectorAll("#table .line svg").length === 20)`)
		p.shoot("board" + name)
		p.eval(`document.querySelectorAll("#table tr:nth-child(4n + 6) .star").forEach((star) => star.click())`)
		p.eval(`document.querySelector("#table tr:nth-child(4)").scrollIntoView()`)
		p.shoot("board-scrolled" + name)
		p.eval(click("#table tbody a"))
		p.await(assetShown)
		p.eval(click("#windows a:nth-child(3)"))
		p.await(assetShown + ` && location.search.includes("30d") && document.querySelector("#plot").ariaValueMax > 170`)
		p.point("#plot .u-over", 0.7)
		p.shoot("asset" + name)
		p.eval(click("#styles a:last-child"))
		p.await(assetShown + ` && ` + chartStyle + ` === "Candles"`)
		p.point("#plot .u-over", 0.7)
		p.shoot("asset-candles" + name)
		for _, listing := range []string{"categories", "exchanges"} {
			p.goTo(base + "/?view=" + listing)
			p.await(shown + ` && document.querySelector("#table caption").textContent.toLowerCase() === ` + quote(listing))
			p.shoot(listing + name)
		}
		p.eval(click("#table tbody a"))
		p.await(`location.search.includes("exchange=") && document.querySelector("#near")?.innerText > ""`)
		p.shoot("exchange" + name)
	}
}
