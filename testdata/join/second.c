#include "area.h"
int second(const struct scene *c) { return area_of_the_shape(c->first) + 2; }
