// The sections of one version, which never change, found by name in a step each: a version may have a thousand of them, and a
// reader asks for every one.
#pragma once

#include <memory>
#include <string_view>
#include <unordered_map>

#include "core/version.h"

namespace muster {

class SectionTable {
 public:
  explicit SectionTable(std::vector<Section> sections) : all_(std::move(sections)) {
    for (const Section& section : all_) byName_.try_emplace(section.name, &section);
  }
  // What finds them points at them.
  SectionTable(const SectionTable&) = delete;
  SectionTable& operator=(const SectionTable&) = delete;

  const std::vector<Section>& all() const { return all_; }
  // nullptr when there is none of that name.
  const Section* find(std::string_view name) const {
    const auto at = byName_.find(name);
    return at == byName_.end() ? nullptr : at->second;
  }

 private:
  const std::vector<Section> all_;
  std::unordered_map<std::string_view, const Section*> byName_;
};

// Shared by the version and all leases on it.
using Sections = std::shared_ptr<const SectionTable>;

}  // namespace muster
