// SPDX-License-Identifier: Apache-2.0
// JSON of files that come from anywhere: bounded in size and depth, no key twice, no exception out of it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "host_driver/base/error.hpp"

namespace svp::bundle {

inline constexpr std::size_t kMostBytes = std::size_t{16} << 20;
inline constexpr int kMostDepth = 16;

// What is wrong with a file or with a member of it, for people.
ErrorInfo bad_bundle(const std::filesystem::path& file, std::string message);

// REJECTED: no regular file, too long, too deep, not JSON, a key twice.
Expected<nlohmann::json> read_strict_json(const std::filesystem::path& file);

// "<what> has no member 'x'", "… does not know the member 'y'"; empty: exactly these members, the optional ones if
// present.
std::string wrong_members(const nlohmann::json& object, std::string_view what,
                          std::initializer_list<std::string_view> needed,
                          std::initializer_list<std::string_view> optional = {});

}  // namespace svp::bundle
