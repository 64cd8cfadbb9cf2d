package artifacts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// The collections that only the answers below /api/v3/ need (see the package documentation).
const (
	CoinsCollection     = "coins"
	ContractsCollection = "contracts"
	PlatformsCollection = "platforms"
	FiguresCollection   = "figures"
	RatesCollection     = "rates"
	LeadersCollection   = "leaders"
)

// ContractsSort names the only view of ContractsCollection.
const ContractsSort = "address"

const (
	itemField      = `,"item":`
	platformsField = `,"platforms":`
)

// AppendCoin appends the row of an asset, or of a platform, up to its item, which the caller
// appends and closes with a brace.
func AppendCoin(dst []byte, id uint64) []byte {
	return append(strconv.AppendUint(append(dst, `{"id":`...), id, 10), itemField...)
}

// CoinItem returns the item in a row of CoinsCollection or PlatformsCollection, without reading it.
// An item without its last byte and then the row's tail is the item with platforms.
func CoinItem(row []byte) []byte { return row[bytes.IndexByte(row, ',')+len(itemField) : len(row)-1] }

// CoinPlatforms returns the object of platforms and addresses in a tail of CoinsCollection.
func CoinPlatforms(tail []byte) []byte { return tail[len(platformsField) : len(tail)-1] }

// evmDigits is how many hexadecimal digits an address of the Ethereum virtual machine has behind 0x.
const evmDigits = 40

// AppendAddress appends a contract's address in the form in which addresses compare as bytes: 0x
// and 40 hexadecimal digits in lower case, any other unchanged.
func AppendAddress(dst []byte, address []byte) []byte {
	digits, evm := bytes.CutPrefix(address, []byte("0x"))
	evm = evm && len(digits) == evmDigits
	for _, c := range digits {
		evm = evm && ('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f')
	}
	if evm {
		return AppendFold(dst, address)
	}
	return append(dst, address...)
}

// AppendContractKey appends the key of a contract in the view of ContractsCollection: the
// platform's id, a zero byte, which no address has, and the address as AppendAddress writes it.
func AppendContractKey(dst []byte, platform string, address []byte) []byte {
	return AppendAddress(append(append(dst, platform...), 0), address)
}

var platformsTail = []byte(platformsField)

// contractSum stands for the rows of the view of contracts that an asset needs whose row and tail
// are given: the sum of their hashes.
func contractSum(id uint64, tail []byte) (sum uint64, err error) {
	var platforms map[string]string
	if err := json.Unmarshal(CoinPlatforms(tail), &platforms); err != nil {
		return 0, fmt.Errorf("platforms of id %d: %w", id, err)
	}
	row := AppendSearchRow(nil, id, 0)
	for platform, address := range platforms {
		sum += hashWord(AppendContractKey(nil, platform, []byte(address)), row)
	}
	return sum, nil
}

// checkFigures returns an error unless the decimals in a row of FiguresCollection or RatesCollection
// are such. rest is what stands behind its id, by which it tells those of other collections.
func checkFigures(rest []byte) error {
	isRate := bytes.HasPrefix(rest, []byte(`"code":`))
	if !isRate && !bytes.HasPrefix(rest, []byte(`"price_change_24h":`)) {
		return nil
	}
	var fields map[string]*string
	if err := json.Unmarshal(append([]byte("{"), rest...), &fields); err != nil {
		return err
	}
	for name, value := range fields {
		text := isRate && name != "usd"
		if !text && value != nil && !isDecimal(*value, 18) || value == nil && (isRate || name == "price_change_24h") {
			return fmt.Errorf("%s is no decimal", name)
		}
	}
	return nil
}
