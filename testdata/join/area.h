struct shape { int width, height, depth; struct shape *next; const char *name; };
struct scene { struct shape *first; long long count; unsigned char flags[16]; double scale; };
static inline int area_of_the_shape(const struct shape *s) { int w = s->width; int h = s->height; return w * h + s->depth; }
static inline int sum_of_the_scene(const struct scene *c) {
	int n = 0;
	for (const struct shape *s = c->first; s; s = s->next)
		n += area_of_the_shape(s);
	return n;
}
