/* The plain functions need no product of matrices of their own. */
#include "pulp_nn_utils.h"
