// SPDX-License-Identifier: Apache-2.0
// What the pages name is there: each path in backticks that begins with a folder of the tree exists.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = SPYRE_SOURCE_DIR;

std::vector<fs::path> pages() {
  std::vector<fs::path> all{kRoot / "README.md", kRoot / "CONTRIBUTING.md"};
  for (const auto& entry : fs::directory_iterator(kRoot / "docs")) {
    if (entry.path().extension() == ".md") all.push_back(entry.path());
  }
  return all;
}

// Not those with a part for the reader to fill in: `tests/fuzz/NAME.cpp`, `firmware/kernels/<name>.cpp`.
std::vector<std::string> paths_in(const std::string& text) {
  static const std::regex kPath(
      R"(`((?:firmware|host_driver|shared|qemu|tests|scripts|toolchain|docs|\.ci)/[a-z0-9_./-]+)(?::\d+)?`)");
  std::vector<std::string> paths;
  for (std::sregex_iterator at(text.begin(), text.end(), kPath), end; at != end; ++at) paths.push_back((*at)[1].str());
  return paths;
}

TEST(Pages, NameOnlyFilesThatAreThere) {
  unsigned found = 0;
  for (const fs::path& page : pages()) {
    std::ifstream in(page);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    for (const std::string& path : paths_in(text)) {
      ++found;
      EXPECT_TRUE(fs::exists(kRoot / path)) << page.filename() << " names " << path;
    }
  }
  EXPECT_GT(found, 30u) << "the pages name files; this test has lost its way to read them";
}

}  // namespace
