// SPDX-License-Identifier: Apache-2.0
// Tables of the reference pages, to compare with what the compiler sees.
#pragma once

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace docs {

inline std::string read_page(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The rows (lines that begin with '|') that follow the page's heading for a table, without its two header lines.
inline std::vector<std::string> rows_on_page(const std::string& page, const std::string& table) {
  const std::size_t at = page.find("**" + table + "**\n");
  if (at == std::string::npos) return {};
  std::istringstream lines(page.substr(at));
  std::string line;
  std::getline(lines, line);
  std::vector<std::string> rows;
  while (std::getline(lines, line) && (line.empty() || line.starts_with("|"))) {
    if (line.empty() && !rows.empty()) break;
    if (!line.empty()) rows.push_back(line);
  }
  rows.erase(rows.begin(), rows.begin() + std::min<std::ptrdiff_t>(2, std::ssize(rows)));
  return rows;
}

}  // namespace docs
