#include "diagnose/diagnosis.h"
