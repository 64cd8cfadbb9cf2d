// Download mirrors the newest files into the folder that its argument names.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	marketdata "example.com/marketdata/edge/openapi/clients/go"
)

func main() {
	ctx, folder := context.Background(), "files"
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	client, err := marketdata.New(os.Getenv("MARKETDATA_URL"), os.Getenv("MARKETDATA_KEY"))
	if err != nil {
		log.Fatal(err)
	}
	files, err := client.Files(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, file := range files.Result.Items {
		if err := client.Download(ctx, file, filepath.Join(folder, filepath.FromSlash(file.Name))); err != nil {
			log.Fatal(err)
		}
		fmt.Println(file.Name, file.Rows)
	}
}
