// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spyrecode-host-functions/sendataconvert/sen_data_convert.h>
