// Gradient meshes for JavaScript.
#pragma once

#include "binding/values.h"
#include "core/mesh_formation.h"

namespace muster::binding {

// Who the members are, and how they meet.
MeshOptions membershipOf(const Napi::Object& from);

Napi::Value openMesh(const Napi::CallbackInfo& info);

}  // namespace muster::binding
