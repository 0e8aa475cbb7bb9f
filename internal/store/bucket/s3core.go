package bucket

import (
	"context"
	"io"
	"iter"
	"net/http"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/lifecycle"
)

// s3Core has the methods of a minio.Core that are used. A field of the type *minio.Core would
// keep all of its 250 methods and what they need in the program, 1.3 MiB: s3 is used as an
// interface, and templates call methods by names that are known at run time alone.
type s3Core struct {
	GetObject    func(ctx context.Context, bucket, key string, _ minio.GetObjectOptions) (io.ReadCloser, minio.ObjectInfo, http.Header, error)
	StatObject   func(ctx context.Context, bucket, key string, _ minio.StatObjectOptions) (minio.ObjectInfo, error)
	RemoveObject func(ctx context.Context, bucket, key string, _ minio.RemoveObjectOptions) error
	PutObject    func(
		ctx context.Context, bucket, key string, data io.Reader, size int64, md5, sha256 string, _ minio.PutObjectOptions,
	) (minio.UploadInfo, error)

	NewMultipartUpload func(ctx context.Context, bucket, key string, _ minio.PutObjectOptions) (id string, err error)
	PutObjectPart      func(
		ctx context.Context, bucket, key, id string, part int, data io.Reader, size int64, _ minio.PutObjectPartOptions,
	) (minio.ObjectPart, error)
	CompleteMultipartUpload func(
		ctx context.Context, bucket, key, id string, parts []minio.CompletePart, _ minio.PutObjectOptions,
	) (minio.UploadInfo, error)
	AbortMultipartUpload func(ctx context.Context, bucket, key, id string) error

	GetBucketLifecycle    func(ctx context.Context, bucket string) (*lifecycle.Configuration, error)
	ListObjectsIter       func(ctx context.Context, bucket string, _ minio.ListObjectsOptions) iter.Seq[minio.ObjectInfo]
	RemoveObjectsWithIter func(
		ctx context.Context, bucket string, list iter.Seq[minio.ObjectInfo], _ minio.RemoveObjectsOptions,
	) (iter.Seq[minio.RemoveObjectResult], error)
}

func newS3Core(endpoint string, opts *minio.Options) (s3Core, error) {
	c, err := minio.NewCore(endpoint, opts)
	if err != nil {
		return s3Core{}, err
	}
	return s3Core{
		c.GetObject, c.StatObject, c.RemoveObject, c.PutObject,
		c.NewMultipartUpload, c.PutObjectPart, c.CompleteMultipartUpload, c.AbortMultipartUpload,
		c.GetBucketLifecycle, c.ListObjectsIter, c.RemoveObjectsWithIter,
	}, nil
}
