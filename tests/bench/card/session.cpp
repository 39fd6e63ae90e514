// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/session.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace bench {

namespace {
constexpr const char* kHowToGetPeers = "install it with scripts/bootstrap --bench";
}

Session::Session(Options options) : options_(options) {
  if (const char* chosen = std::getenv("SPYRE_ARRAY"); chosen != nullptr) chosen_array_ = chosen;
}

void Session::add(Row row) {
  fmt::print(stderr, "  {}{}\n", summary(row), array_ ? "" : " (without array)");
  if (!array_ && options_.array == Options::Array::Both) {
    report_.add_without_array(std::move(row));
  } else {
    report_.add(std::move(row));
  }
}

void Session::use_array(bool array) {
  if (array_ != array) end_card();
  array_ = array;
  if (!array) {
    ::setenv("SPYRE_ARRAY", "off", 1);
  } else if (chosen_array_.empty() || chosen_array_ == "off") {
    ::unsetenv("SPYRE_ARRAY");
  } else {
    ::setenv("SPYRE_ARRAY", chosen_array_.c_str(), 1);
  }
}

svp::Context& Session::card() {
  if (!card_) {
    svp::ContextOptions options;
    options.card.emplace().cores = options_.cores;
    card_ = svp::Context::open(std::move(options));
  }
  return *card_;
}

OpenClPeer* Session::opencl() {
  if (!opencl_asked_) {
    opencl_asked_ = true;
    auto opened = OpenClPeer::open();
    if (opened) {
      opencl_ = *std::move(opened);
    } else {
      report_.note("PoCL is not measured: " + opened.error() + "; " + kHowToGetPeers);
    }
  }
  return opencl_.get();
}

BlasPeer* Session::blas() {
  if (!blas_asked_) {
    blas_asked_ = true;
    auto opened = BlasPeer::open();
    if (opened) {
      blas_ = *std::move(opened);
    } else {
      report_.note("OpenBLAS is not measured: " + opened.error() + "; " + kHowToGetPeers);
    }
  }
  return blas_.get();
}

}  // namespace bench
