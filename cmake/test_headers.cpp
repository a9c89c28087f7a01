// Carries the precompiled headers of the unit tests (cmake/NibbleRoom.cmake).
