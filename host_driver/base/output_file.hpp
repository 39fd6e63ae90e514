// SPDX-License-Identifier: Apache-2.0
// Files that a user has named to be written.
#pragma once

#include <filesystem>
#include <functional>
#include <ostream>

#include "host_driver/base/error.hpp"

namespace svp {

/// Writes what `content` gives. A new file, and one that takes the place of a regular file, appears whole or not at
/// all: it is written beside it under another name first, and keeps the permissions of the one before. Everything else
/// (a symbolic link, a FIFO, a device) is opened and written, and stays what it is; so is a regular file in a folder in
/// which no file can be made. Opening a FIFO waits for its reader. Errors: a path that cannot be written, a full disk,
/// a limit (RLIMIT_FSIZE); what `content` throws is passed on.
Expected<void> write_output_file(const std::filesystem::path& path, const std::function<void(std::ostream&)>& content);

}  // namespace svp
