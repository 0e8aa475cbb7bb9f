package durable

// usualBlock is the allocation unit of most file systems, in bytes.
const usualBlock = 4 << 10
