// Carries the precompiled headers (cmake/NibblePrecompiled.cmake).
