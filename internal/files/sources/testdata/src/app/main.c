#include <stdio.h>
#include "../lib/util.h"
#include "sub dir/odd name+.h"

int main(int argc, char **argv)
{
	printf("%d %d\n", twice(argc), odd(argc));
	return helper(argc, argv[0]);
}
