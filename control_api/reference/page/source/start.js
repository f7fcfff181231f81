SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  displayOperationId: true,
  filter: true,
  // Shows `x-required-scope`.
  showExtensions: true,
  // Else it asks a validator on another host about the document.
  validatorUrl: null,
});
