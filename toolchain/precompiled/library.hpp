// SPDX-License-Identifier: Apache-2.0
// Standard headers that most host sources read, compiled once for the libraries
// (toolchain/cmake/spyre_precompiled.cmake). A source still includes what it uses: -DSPYRE_PRECOMPILED_HEADERS=OFF
// builds without this file.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <expected>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
