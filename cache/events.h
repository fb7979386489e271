// What a cache tells those who watch it: counters and events, which are public.
#pragma once

#include "jfa/cache.h"
