package files

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// maxFooter is the maximum size of a Parquet footer. A footer for 150 row groups and three columns
// is about 60 KB in size.
const maxFooter = 1 << 20

// bounded passes a Parquet file through and removes the page index from its footer.
//
// parquet-go compares fixed-length decimals as unsigned bytes (its issue 592). For the values -10,
// 0 and 10, it takes 0 for the minimum and -10 for the maximum. As a result, DuckDB skips row
// groups that match, and ClickHouse refuses the file. So the writer omits the bounds
// (SkipPageBounds), and bounded removes the page index: ClickHouse refuses an index without bounds,
// and parquet-go's own reader refuses one that covers only some columns. Bounds and page index are
// optional in Parquet; a reader without them reads the whole column.
type bounded struct {
	out  io.Writer
	tail []byte // the bytes that may belong to the footer
}

func (b *bounded) Write(data []byte) (int, error) {
	b.tail = append(b.tail, data...)
	if len(b.tail) < 2*maxFooter {
		return len(data), nil
	}
	n, err := b.out.Write(b.tail[:len(b.tail)-maxFooter])
	b.tail = append(b.tail[:0], b.tail[n:]...)
	return len(data), err
}

// close writes the remaining bytes, with the new footer.
func (b *bounded) close() error {
	const end = 8 // the length of the footer and "PAR1"
	var meta format.FileMetaData
	protocol := new(thrift.CompactProtocol)
	at := len(b.tail) - end
	size := int(binary.LittleEndian.Uint32(b.tail[at:]))
	if size > at {
		return fmt.Errorf("the footer has %d bytes; %d are kept", size, at)
	}
	if err := thrift.Unmarshal(protocol, b.tail[at-size:at], &meta); err != nil {
		return fmt.Errorf("read the footer: %w", err)
	}
	for i := range meta.RowGroups {
		for j := range meta.RowGroups[i].Columns {
			c := &meta.RowGroups[i].Columns[j]
			c.ColumnIndexOffset, c.ColumnIndexLength, c.OffsetIndexOffset, c.OffsetIndexLength = 0, 0, 0, 0
		}
	}
	footer, err := thrift.Marshal(protocol, &meta)
	if err != nil {
		return fmt.Errorf("write the footer: %w", err)
	}
	file := append(b.tail[:at-size], footer...)
	file = binary.LittleEndian.AppendUint32(file, uint32(len(footer)))
	_, err = b.out.Write(append(file, "PAR1"...))
	return err
}

// decimals returns options that write no bounds for the decimals in a schema. All fixed-length
// columns of the schema are decimals.
func decimals(schema *parquet.Schema) (options []parquet.WriterOption) {
	for _, path := range schema.Columns() {
		if leaf, ok := schema.Lookup(path...); ok && leaf.Node.Type().Kind() == parquet.FixedLenByteArray {
			options = append(options, parquet.SkipPageBounds(path...))
		}
	}
	return options
}
